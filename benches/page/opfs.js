// A worker without weightstream: it writes one file to the origin private file system and reads it.
const NAME = "bench.bin";

onmessage = async ({ data: { url, byteLength } }) => {
  const folder = await navigator.storage.getDirectory();
  const handle = await (await folder.getFileHandle(NAME, { create: true })).createSyncAccessHandle();
  try {
    if (url) {
      if (handle.getSize() === 0) await write(handle, url);
      postMessage(null);
    } else {
      const buffers = read(handle, byteLength);
      postMessage(buffers, buffers);
    }
  } finally {
    handle.close();
  }
};

async function write(handle, url) {
  handle.write(await (await fetch(url, { cache: "no-store" })).arrayBuffer());
  handle.flush();
}

// Reads whole buffers only, without the rest of the file at its end.
function read(handle, byteLength) {
  const buffers = [];
  for (let at = 0; at + byteLength <= handle.getSize(); at += byteLength) {
    const buffer = new ArrayBuffer(byteLength);
    handle.read(new Uint8Array(buffer), { at });
    buffers.push(buffer);
  }
  return buffers;
}
