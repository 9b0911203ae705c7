"""A public network of one host, in a network namespace: runs a command, then tells what was asked.

Usage: network.py FOLDER PROGRAM ARGUMENT... ; prints what the program printed, and a line for each
request. FOLDER holds `host.pem`, the certificate of NAME with its key, and `authority.pem`.
"""

import fcntl
import http.server
import os
import socket
import ssl
import struct
import subprocess
import sys
import threading

NAME = "tea.example.org"
HOST = "9.9.9.9"  # An address of the public network; here it is this namespace's own.
SET_FLAGS, SET_ADDRESS, UP = 0x8914, 0x8916, 0x41

control = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
fcntl.ioctl(control, SET_FLAGS, struct.pack("16sh14x", b"lo", UP))
address = struct.pack("16sHH4s8x", b"lo:1", socket.AF_INET, 0, socket.inet_aton(HOST))
fcntl.ioctl(control, SET_ADDRESS, address)

PAGE = b"""<html><head><title>Tea</title><script>x()</script></head>
<body><p>Warm &amp; dry.</p></body></html>"""
REDIRECTS = {
    "/moved": "/page",
    "/inside": "http://127.0.0.1/page",
    "/metadata": "http://169.254.169.254/",
}
asked = []


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        headers = sorted(name.lower() for name in self.headers)
        asked.append((self.server.server_address[0], self.path, headers))
        if self.path in REDIRECTS:
            self.send_response(302)
            self.send_header("location", REDIRECTS[self.path])
            self.send_header("content-length", "0")
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("content-type", "text/html; charset=utf-8")
        self.send_header("content-length", str(len(PAGE)))
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, *_):
        pass


for host in (HOST, "127.0.0.1"):
    server = http.server.ThreadingHTTPServer((host, 80), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()

folder = sys.argv[1]
secure = http.server.ThreadingHTTPServer((HOST, 443), Handler)
tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
tls.load_cert_chain(os.path.join(folder, "host.pem"))
secure.socket = tls.wrap_socket(secure.socket, server_side=True)
threading.Thread(target=secure.serve_forever, daemon=True).start()

# This namespace's own table of names: one that leads out, one that leads inside.
hosts = os.path.join(folder, "hosts")
with open(hosts, "w") as table:
    table.write(f"{HOST} {NAME} other.example.org\n127.0.0.1 inside.example.org\n")
subprocess.run(["mount", "--bind", hosts, "/etc/hosts"], check=True)
environment = {**os.environ, "SSL_CERT_FILE": os.path.join(folder, "authority.pem")}
environment.pop("SSL_CERT_DIR", None)

done = subprocess.run(
    sys.argv[2:], stdout=subprocess.PIPE, text=True, timeout=60, env=environment
)
print(done.stdout, end="")
for host, path, headers in asked:
    print("asked", host, path, " ".join(headers))
sys.exit(done.returncode)
