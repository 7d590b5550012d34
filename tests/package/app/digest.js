export async function sha256OfTensor(opening, name) {
  const loader = await opening;
  const { data } = await loader.loadTensor(name);
  loader.close();
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", data));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
