import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

const api = process.env.MEDLEY_API ?? "http://127.0.0.1:8080";

export default defineConfig({
  plugins: [react()],
  resolve: { alias: { "@": new URL("./src", import.meta.url).pathname } },
  // control/api/console.py puts a fresh nonce there in every answer.
  html: { cspNonce: "MEDLEY-CSP-NONCE" },
  build: {
    outDir: "../control/api/bundle",
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    rollupOptions: {
      output: {
        manualChunks: {
          react: ["react", "react-dom", "react-router", "@tanstack/react-query"],
          ui: ["radix-ui", "cmdk"],
        },
      },
    },
  },
  server: { proxy: { "/api": api } },
});
