// TensorFlow.js from its scripts, with the backend for the CPU, and face-api, whose bundle has one of its own.

for (const name of ["core", "converter", "backend-cpu"]) {
  const script = document.createElement("script");
  script.src = `/npm/@tensorflow/tfjs-${name}/dist/tf-${name}.min.js`;
  await new Promise((resolve, reject) => {
    script.addEventListener("load", resolve);
    script.addEventListener("error", () => reject(new Error(`${script.src} cannot be loaded`)));
    document.head.append(script);
  });
}

export const tf = globalThis.tf;
await tf.setBackend("cpu");

export const faceapi = await import("/npm/@vladmandic/face-api/dist/face-api.esm.js");
await faceapi.tf.setBackend("cpu");

// Compares maps of tensors. Returns their number.
export async function sameTensors(failures, what, found, expected) {
  failures.same(`${what}: names`, Object.keys(found), Object.keys(expected));
  for (const [name, tensor] of Object.entries(expected)) {
    const { dtype, shape } = tensor;
    failures.same(`${what}: ${name}`, { dtype: found[name]?.dtype, shape: found[name]?.shape }, { dtype, shape });
    const [a, b] = [await found[name].data(), await tensor.data()];
    const isSame = a.length === b.length && a.every((value, at) => Object.is(value, b[at]));
    if (!isSame) failures.push(`${what}: the values of ${name} differ`);
  }
  return Object.keys(expected).length;
}
