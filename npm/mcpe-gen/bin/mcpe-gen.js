#!/usr/bin/env node
// Starts the binary of this platform, which is in one of the optional dependencies.
"use strict";

const { spawn } = require("node:child_process");

const platform = `${process.platform}-${process.arch}`;
const name = `@mcpe-gen/${platform}`;
const file = process.platform === "win32" ? "mcpe-gen.exe" : "mcpe-gen";

let binary;
try {
  binary = require.resolve(`${name}/bin/${file}`);
} catch {
  console.error(
    `mcpe-gen: the package ${name} is not installed; install again without --omit=optional, because the binaries are optional ` +
      "dependencies. For a platform without a package, see https://github.com/mcpe-gen/mcpe-gen/blob/main/docs/install.md",
  );
  process.exit(1);
}

const child = spawn(binary, process.argv.slice(2), { stdio: "inherit" });
// A terminal sends Ctrl-C to both processes. The wrapper waits for the command to end.
process.on("SIGINT", () => {});
for (const signal of ["SIGTERM", "SIGHUP"]) {
  process.on(signal, () => child.kill(signal));
}
child.on("error", (error) => {
  console.error(`mcpe-gen: starting ${binary}: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => {
  if (signal) {
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
    return;
  }
  process.exit(code);
});
