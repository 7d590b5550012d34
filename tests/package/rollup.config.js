// Two apps: one with the package as one script, which needs no plugin for assets, and one whose assets a plugin copies.

import { nodeResolve } from "@rollup/plugin-node-resolve";
import { importMetaAssets } from "@web/rollup-plugin-import-meta-assets";

export default [
  { input: "app/inline.js", output: { dir: "rollup" }, plugins: [nodeResolve()] },
  { input: "app/main.js", output: { dir: "rollup-assets" }, plugins: [nodeResolve(), importMetaAssets()] },
];
