"""Runs the ClickHouse that is inside libchdb.so as a server on loopback.

The library holds the whole engine, clickhouse-local included, and that has the server's own handlers of
HTTP and of the native protocol: SYSTEM START LISTEN opens them, for as long as the process has a query to
run. Here that query reads a pipe, which is closed when the process is told to stop.

usage: clickhouse_server.py LIBRARY DATA_DIR HTTP_PORT NATIVE_PORT [--option=value ...]
"""
import ctypes
import os
import signal
import sys
import threading

SIGNALS = {signal.SIGTERM, signal.SIGINT, signal.SIGUSR1}


def main():
    library, data, http_port, native_port, *extra = sys.argv[1:]
    read_end, write_end = os.pipe()
    os.set_inheritable(write_end, False)
    os.dup2(read_end, 0)
    os.close(read_end)
    statements = "SYSTEM START LISTEN HTTP; SYSTEM START LISTEN TCP; SELECT count() FROM file('stdin', 'LineAsString') FORMAT Null"
    args = ["clickhouse", f"--path={data}", "--listen_host=127.0.0.1", f"--http_port={http_port}",
            f"--tcp_port={native_port}", *extra, f"--query={statements}"]
    so = ctypes.CDLL(library)
    so.chdb_query_cmdline.restype = ctypes.c_void_p
    so.chdb_query_cmdline.argtypes = [ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)]
    so.chdb_result_error.restype = ctypes.c_char_p
    so.chdb_result_error.argtypes = [ctypes.c_void_p]
    status = 1

    def serve():
        nonlocal status
        argv = (ctypes.c_char_p * (len(args) + 1))(*[a.encode() for a in args], None)
        result = so.chdb_query_cmdline(len(args), argv)
        error = so.chdb_result_error(result) if result else b"no result"
        if error:
            print(error.decode(errors="replace"), flush=True)
        else:
            status = 0
        os.kill(os.getpid(), signal.SIGUSR1)

    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    if signal.sigwait(SIGNALS) == signal.SIGUSR1:  # the query has ended by itself
        os._exit(status)
    os.close(write_end)
    thread.join(15)
    os._exit(0)


main()
