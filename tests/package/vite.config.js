// For apps in which the development server moves dependencies to a folder that the package does not know.

export default {
  cacheDir: "../vite-cache",
  optimizeDeps: { exclude: ["weightstream"] },
};
