"""Serves the starter model as a test wants it, until standard input closes."""

import json
import os
import sys
import threading

config = json.loads(sys.stdin.readline())
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
sys.path.insert(0, config["packages"])

import xllamacpp  # noqa: E402

SLOTS = 3
SLOT_TOKENS = 8192

params = xllamacpp.CommonParams()
params.model.path = config["model"]
params.hostnames = ["127.0.0.1"]
params.port = 0
params.cors_origins = ""
params.n_parallel = SLOTS
params.n_ctx = SLOTS * SLOT_TOKENS
params.n_batch = params.n_ubatch = 64
params.kv_unified = config["shared_cache"]
params.cache_idle_slots = config["shared_cache"]
params.cache_ram_mib = 256
params.endpoint_slots = True
params.endpoint_metrics = True
params.use_jinja = True
if config["template"]:
    params.chat_template = config["template"]

server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
threading.Event().wait()
