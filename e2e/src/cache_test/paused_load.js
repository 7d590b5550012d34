// Adds functions that begin a load, leave it, and go on with it.

{
  let tensors;

  // Loads one tensor. Returns how many leases are held when they have had time to end.
  globalThis.leasesOfPausedLoad = async (url) => {
    tensors = (await StreamingLoader.open(url)).tensors();
    await tensors.next();
    let count;
    for (let checks = 0; checks < 200; checks++) {
      const { held } = await navigator.locks.query();
      count = held.filter(({ name }) => name.startsWith("weightstream load ")).length;
      if (count === 0) break;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    return count;
  };

  // The number of tensors that the load had left.
  globalThis.restOfPausedLoad = async () => {
    let count = 0;
    for await (const _ of tensors) count++;
    return count;
  };
}
