// Loads all tensors as a web app would, and returns them with their hashes as JSON.
async (url) => {
  const { StreamingLoader } = await import("/pkg/weightstream.js");
  const hex = (buffer) => Array.from(new Uint8Array(buffer), (byte) => byte.toString(16).padStart(2, "0")).join("");
  const loader = await StreamingLoader.open(url);
  const arrived = [];
  for await (const { name, dtype, shape, data } of loader.tensors()) {
    const sha256 = hex(await crypto.subtle.digest("SHA-256", data));
    arrived.push({ name, dtype, shape, byteLength: data.byteLength, sha256 });
  }
  await loader.verify();
  loader.close();
  return JSON.stringify(arrived);
}
