// Opens what is dropped on the page, and stores the names of its tensors or the error in `dropped`.
const { StreamingLoader } = await import("/pkg/weightstream.js");

const namesOf = async (loader) => (await loader.loadIndex()).map(({ name }) => name).join();

export function listen() {
  addEventListener("dragover", (event) => event.preventDefault());
  addEventListener("drop", async (event) => {
    event.preventDefault();
    const { items } = event.dataTransfer;
    try {
      window.dropped = await namesOf(await open(items.length === 1 ? items[0] : items));
    } catch (error) {
      window.dropped = String(error);
    }
  });
}

export const expected = async () =>
  namesOf(await StreamingLoader.open("/fixtures/safetensors/sharded/model.safetensors.index.json"));

const open = (source) => StreamingLoader.open(source, { inWorker: true });
