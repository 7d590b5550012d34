// Compiles if the exports of the module that `src/js/module/glue.d.ts` declares have the names and the numbers of
// parameters that wasm-bindgen has generated. The declarations have the types, which wasm-bindgen cannot know.
// `cargo xtask build` writes the generated ones to `target/glue`.
import type * as Declared from "../../../src/js/module/glue.js";
import type * as Generated from "../../../target/glue/glue.js";

/** The number of parameters of each function, and the same for the members of each class. */
type Shape<T> = {
  [Name in keyof T]: 0 extends 1 & T[Name] ? "value" // any
    : T[Name] extends (...parameters: infer Parameters) => unknown ? Required<Parameters>["length"]
    : T[Name] extends { prototype: infer Instance } ? { instance: Shape<Instance>, static: Shape<Statics<T[Name]>> }
    : "value";
};
type Statics<T> = Omit<T, "prototype">;

declare const generated: Shape<typeof Generated>;
generated satisfies Shape<typeof Declared>;

// Classes that the declarations have as interfaces, because loaders in workers have them, too.
declare const classes: [
  Shape<Generated.ModelView>, Shape<Generated.TensorReader>, Shape<Generated.TensorStream>,
  Shape<Generated.ViewReader>,
];
classes satisfies [
  Shape<Declared.ModelView>, Shape<Declared.TensorReader>, Shape<Declared.TensorStream>,
  Shape<Declared.ViewReader>,
];
