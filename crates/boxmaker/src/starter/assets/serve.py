"""Serves the starter model on loopback until standard input closes.

The first line of standard input is a JSON object with what to serve; nothing
secret is taken from the arguments or the environment. The one line written to
standard output says where the server listens.
"""

import json
import os
import sys
import threading

config = json.loads(sys.stdin.readline())


def leave_with_parent():
    """Whoever started us holds the other end of standard input."""
    sys.stdin.read()
    os._exit(0)


threading.Thread(target=leave_with_parent, daemon=True).start()
sys.path.insert(0, config["packages"])

import xllamacpp  # noqa: E402

params = xllamacpp.CommonParams()
params.model.path = config["model"]
params.model_alias = {config["alias"]}
params.hostnames = ["127.0.0.1"]
params.port = 0
params.api_keys = [config["api_key"]]
params.cors_origins = ""
params.n_parallel = config["slots"]
params.n_ctx = config["slots"] * config["slot_tokens"]
params.n_batch = config["batch_tokens"]
params.n_ubatch = config["batch_tokens"]
params.kv_unified = False
params.cache_idle_slots = False
params.cache_ram_mib = config["prompt_cache_mib"]
params.endpoint_slots = True
params.endpoint_metrics = True
params.use_jinja = True
params.ui = False
params.verbosity = config["verbosity"]

server = xllamacpp.Server(params)
print(json.dumps({"listening": server.listening_address}), flush=True)
threading.Event().wait()
