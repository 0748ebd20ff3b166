# Sourced by the scripts that start ClickHouse, behind common.sh: getting the engine, and the server's configuration.

# The library of the Python package chdb 3.7.2 holds the whole server of 25.8 LTS.
CH_LTS_PACKAGE=chdb==3.7.2
ch_lts_opt=$PEERS/opt/clickhouse-25.8.2.1
ch_lts_lib=$ch_lts_opt/chdb/_chdb.abi3.so
py=${PYTHON:-python3}

# ch_install_lts: get the server of 25.8, once
ch_install_lts() {
  if [[ -s $ch_lts_opt/.complete ]]; then say "is there: $ch_lts_lib"; return; fi
  need "$py" python3
  need curl curl
  "$py" -c 'import ensurepip' 2>/dev/null || apt_install python3-venv
  local part=$ch_lts_opt.part
  rm -rf "$part"; mkdir -p "$part/dl"
  [[ -x $PEERS/opt/venv/bin/pip ]] || "$py" -m venv "$PEERS/opt/venv"
  "$PEERS/opt/venv/bin/pip" download -q --disable-pip-version-check --no-deps --only-binary :all: -d "$part/dl" "$CH_LTS_PACKAGE" >&2 ||
    die "the package $CH_LTS_PACKAGE cannot be had"
  "$py" -m zipfile -e "$part"/dl/chdb-*.whl "$part"
  rm -rf "$part/dl"
  [[ -s $part/chdb/_chdb.abi3.so ]] || die "the package did not bring its library"
  echo 1 >"$part/.complete"; rm -rf "$ch_lts_opt"; mv "$part" "$ch_lts_opt"
  say "installed: $ch_lts_lib"
}

# ch_users FILE: the users of all servers here
ch_users() {
  cat >"$1" <<X
<clickhouse>
  <profiles><default/><reader><readonly>1</readonly></reader></profiles>
  <quotas><default/></quotas>
  <users>
    <default><password/><networks><ip>127.0.0.0/8</ip></networks><profile>default</profile><quota>default</quota></default>
    <app><password>secret</password><networks><ip>127.0.0.0/8</ip></networks><profile>default</profile><quota>default</quota></app>
    <reader><password>reader</password><networks><ip>127.0.0.0/8</ip></networks><profile>reader</profile><quota>default</quota></reader>
  </users>
</clickhouse>
X
}

# ch_config FOLDER HTTP_PORT NATIVE_PORT INTERSERVER_PORT: the configuration of a server whose folder that is, with what
# is read from standard input besides
ch_config() {
  ch_users "$1/users.xml"
  cat >"$1/config.xml" <<X
<clickhouse>
  <logger><level>warning</level><console>1</console></logger>
  <listen_host>127.0.0.1</listen_host>
  <http_port>$2</http_port><tcp_port>$3</tcp_port>
  <interserver_http_port>$4</interserver_http_port><interserver_http_host>127.0.0.1</interserver_http_host>
  <path>$1/data/</path><tmp_path>$1/data/tmp/</tmp_path><user_files_path>$1/data/user_files/</user_files_path>
  <format_schema_path>$1/data/format_schemas/</format_schema_path>
  <user_directories><users_xml><path>$1/users.xml</path></users_xml></user_directories>
  <default_profile>default</default_profile><default_database>default</default_database>
  <mark_cache_size>67108864</mark_cache_size>
  <background_schedule_pool_size>32</background_schedule_pool_size>
  <max_concurrent_queries>100</max_concurrent_queries>
  <max_server_memory_usage_to_ram_ratio>0.3</max_server_memory_usage_to_ram_ratio>
  <query_log><database>system</database><table>query_log</table><flush_interval_milliseconds>1000</flush_interval_milliseconds></query_log>
$(cat)
</clickhouse>
X
}

# ch_wait FOLDER PORT: until the server whose folder that is answers; it may have ended
ch_wait() {
  local n
  for ((n = 0; n < 900; n++)); do
    pid_read "$1/pid" >/dev/null || { tail -n 20 "$1/log" >&2; die "it ended at start"; }
    if curl -sf -m 2 "http://127.0.0.1:$2/ping" >/dev/null 2>&1; then return; fi
    sleep 0.1
  done
  tail -n 20 "$1/log" >&2
  die "not ready after 90 s"
}

# ch_sql PORT DATABASE STATEMENT
ch_sql() { curl -sS -m 200 --fail-with-body "http://127.0.0.1:$1/?database=$2&default_format=TabSeparated" --data-binary "$3"; }
