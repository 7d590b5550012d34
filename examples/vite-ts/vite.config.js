export default {
  // The page uses top-level `await`, which all browsers with WebAssembly SIMD support.
  build: { target: "es2022" },
  // Vite's development server must not move weightstream.js away from its module and its worker.
  optimizeDeps: { exclude: ["weightstream"] },
};
