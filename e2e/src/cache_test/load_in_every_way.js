// Loads cached bytes as rows, into the caller's memory, and with several loaders at once. Returns whether each result
// is correct.
async (url, name, rows) => {
  const bytesOf = ({ buffer, byteOffset, byteLength }) => new Uint8Array(buffer, byteOffset, byteLength);
  const loader = await StreamingLoader.open(url);
  const { data, shape } = await loader.loadTensor(name);
  const bytes = bytesOf(data);
  const rowLength = data.byteLength / shape[0];
  const is = (data, start = 0, end = bytes.length) => {
    const other = bytesOf(data), part = bytes.subarray(start, end);
    return other.length === part.length && other.every((byte, at) => byte === part[at]);
  };
  const some = await loader.loadTensor(name, { rows });
  const into = new Uint8Array(bytes.length);
  await loader.loadTensor(name, { into });
  const all = await Promise.all(Array.from({ length: 4 }, async () => {
    const another = await StreamingLoader.open(url), loaded = [];
    for await (const tensor of another.tensors()) loaded.push(tensor);
    const { bytesReceived } = another.stats;
    another.close();
    return [bytesReceived, is(loaded.find((tensor) => tensor.name === name).data), loaded.length];
  }));
  return [is(some.data, rows[0] * rowLength, rows[1] * rowLength), is(into), ...all];
}
