// Prints the public API of the package: every exported declaration of weightstream.d.ts by name, without comments, as
// the TypeScript compiler prints it. Fails if weightstream.js does not export exactly the values that are declared.
//
//   node api.mjs <node_modules> <tsconfig.json of src/js>
import { dirname, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [nodeModules, config] = process.argv.slice(2).map((path) => resolve(path));
const { API, SymbolFlags } = await import(pathToFileURL(resolve(nodeModules, "typescript/dist/api/sync/api.js")));

const compiler = new API({ cwd: dirname(config) });
try {
  const project = compiler.updateSnapshot({ openProjects: [config] }).getProject(config);
  const declared = exportsOf(project, "weightstream.d.ts");
  const implemented = exportsOf(project, "weightstream.js");
  const [expected, found] = [valuesOf(declared), valuesOf(implemented)];
  if (expected !== found) throw new Error(`weightstream.d.ts declares ${expected}; weightstream.js exports ${found}`);
  const declarations = declared.flatMap(({ declarations }) => declarations).map((handle) => handle.resolve());
  console.log(declarations.map((node) => wrapped(project.emitter.printNode(node))).join("\n\n"));
} finally {
  compiler.close();
}

function exportsOf({ checker, program }, name) {
  const file = program.getSourceFile(resolve(dirname(config), name));
  const symbols = checker.getExportsOfModule(checker.getSymbolAtLocation(file));
  const isAlias = ({ flags }) => (flags & SymbolFlags.Alias) !== 0;
  const resolved = symbols.map((symbol) => (isAlias(symbol) ? checker.getAliasedSymbol(symbol) : symbol));
  return resolved.sort((a, b) => (a.name < b.name ? -1 : 1));
}

function valuesOf(symbols) {
  return symbols.filter(({ flags }) => flags & SymbolFlags.Value).map(({ name }) => name).join(", ");
}

function wrapped(declaration) {
  const lines = declaration.split("\n");
  return lines.map((line) => (line.length > 120 ? line.replaceAll(" | ", "\n    | ") : line)).join("\n");
}
