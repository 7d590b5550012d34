export const tests = async () => ({});
