// Models that are made in the test.

// A SafeTensors file with tensors of bytes, by name and length.
export function safetensors(lengths) {
  let at = 0;
  const tensors = Object.entries(lengths).map(([name, length]) => {
    const info = { dtype: "U8", shape: [length], data_offsets: [at, (at += length)] };
    return [name, info];
  });
  const header = new TextEncoder().encode(JSON.stringify(Object.fromEntries(tensors)));
  const file = new Uint8Array(8 + header.length + at);
  new DataView(file.buffer).setBigUint64(0, BigInt(header.length), true);
  file.set(header, 8);
  for (let i = 8 + header.length; i < file.length; i++) file[i] = (i * 31 + (i >> 8) * 17) & 0xff;
  return file;
}
