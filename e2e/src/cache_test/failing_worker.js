// A worker that fails after it received seven messages.
globalThis.Worker = class extends Worker {
  messages = 0;

  postMessage(...message) {
    super.postMessage(...message);
    if (++this.messages === 7) {
      this.terminate();
      this.dispatchEvent(new ErrorEvent("error", { message: "test failure", cancelable: true }));
    }
  }
};
0
