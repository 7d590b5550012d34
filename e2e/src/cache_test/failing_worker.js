// A worker that fails after seven messages.
globalThis.Worker = class extends Worker {
  messages = 0;

  postMessage(...message) {
    super.postMessage(...message);
    if (++this.messages === 7) {
      this.terminate();
      this.dispatchEvent(new ErrorEvent("error", { message: "no such luck", cancelable: true }));
    }
  }
};
0
