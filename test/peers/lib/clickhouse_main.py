"""Runs the ClickHouse server whose program is inside the library of the Python package chdb, version 3.7.2.

That library has the main functions of all of ClickHouse's programs, the server's too, so this is the server
itself: with its configuration file, replication between servers and ON CLUSTER. (It has no Keeper.)

usage: clickhouse_main.py LIBRARY CONFIG_FILE
"""
import ctypes
import sys

library, config = sys.argv[1:]
args = [a.encode() for a in ("clickhouse-server", "--config-file=" + config)]
argv = (ctypes.c_char_p * (len(args) + 1))(*args, None)
sys.exit(ctypes.CDLL(library)._Z25mainEntryClickHouseServeriPPc(len(args), argv))
