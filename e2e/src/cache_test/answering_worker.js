// A shared worker or a service worker that loads the model whose URL each message contains. `load` is prepended.
self.onconnect = ({ ports: [port] }) => {
  port.onmessage = ({ data }) => answer(data, port);
};
self.onmessage = (event) => event.waitUntil(answer(event.data, event.source));

async function answer(url, port) {
  port.postMessage(await load(url).catch(String));
}
