// The packages that examples import, and that the test does not have.

declare module "@huggingface/transformers";
declare module "@litert-lm/core";
declare module "@litertjs/core";
declare module "@mediapipe/tasks-genai";
declare module "@mlc-ai/web-llm";
declare module "@tensorflow/tfjs";
declare module "@wllama/wllama";
declare module "hyparquet";
declare module "https://cdn.example.org/*";
declare module "onnxruntime-web/jspi";
