"""Creates a container in the emulator of Azure, with the key that every emulator has."""

import base64
import datetime
import hashlib
import hmac
import sys
import urllib.request

ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

port, container = sys.argv[1:]
date = datetime.datetime.now(datetime.timezone.utc).strftime("%a, %d %b %Y %H:%M:%S GMT")
resource = f"/{ACCOUNT}/{ACCOUNT}/{container}\nrestype:container"
signed = "PUT" + "\n" * 12 + f"x-ms-date:{date}\nx-ms-version:2021-08-06\n{resource}"
signature = hmac.new(base64.b64decode(KEY), signed.encode(), hashlib.sha256).digest()
headers = {
    "x-ms-date": date,
    "x-ms-version": "2021-08-06",
    "Authorization": f"SharedKey {ACCOUNT}:{base64.b64encode(signature).decode()}",
}
url = f"http://127.0.0.1:{port}/{ACCOUNT}/{container}?restype=container"
urllib.request.urlopen(urllib.request.Request(url, method="PUT", headers=headers))
