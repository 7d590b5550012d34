"""Starts the emulator of Google Cloud Storage, with a bucket.

The emulator lacks some properties of the real service that clients of its XML interface need: answers to HEAD and
DELETE, the headers ETag and Last-Modified, and objects that are JSON.
"""

import sys

from gcp_storage_emulator import server
from gcp_storage_emulator.handlers import objects

Handler = server.RequestHandler


def do_head(self):
    self.do_GET()


def end_headers(self):
    self.send_header("ETag", '"emulated"')
    self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
    end_of_headers(self)


def read_data(handler, query):
    if handler.command == "PUT":
        return server._read_raw_data(handler)
    return read_other_data(handler, query)


end_of_headers = Handler.end_headers
read_other_data = server._read_data
server._read_data = read_data
Handler.do_HEAD = do_head
Handler.end_headers = end_headers
_, handlers = server.HANDLERS[-1]
handlers[server.DELETE] = objects.delete

running = server.create_server("127.0.0.1", int(sys.argv[1]), in_memory=True, default_bucket="models")
running.start()
print("ready", flush=True)
sys.stdin.read()
