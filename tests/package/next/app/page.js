"use client";
import { useEffect } from "react";
import { StreamingLoader, cachedBytes, clearCache } from "weightstream";
import { check } from "./check.js";

export default function Page() {
  useEffect(() => {
    globalThis.check = (url, matrix) => check({ StreamingLoader, cachedBytes, clearCache }, url, matrix);
  }, []);
  return <p>weightstream in Next.js</p>;
}
