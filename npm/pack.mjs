// Makes the npm packages: the wrapper, and for each platform of dist/bin a package with its binary of mcpe-gen.
//
//	node pack.mjs DIST                           writes DIST/npm/*.tgz
//	node pack.mjs --project PACKAGES VERSION     prints the package.json of a project that has them from their files
import { execFileSync } from "node:child_process";
import { chmodSync, copyFileSync, cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));

// The names that Node has for systems and processors of Go.
const systems = { linux: "linux", darwin: "darwin", windows: "win32" };
const processors = { amd64: "x64", arm64: "arm64" };

const write = (path, value) => writeFileSync(path, JSON.stringify(value, null, 2) + "\n");

// file is the name that npm gives to the archive of a package.
const file = (name, version) => `${name.replace("@", "").replace("/", "-")}-${version}.tgz`;

function pack(dist) {
  // npm leaves build metadata out of a version.
  const version = readFileSync(join(dist, "VERSION"), "utf8").trim().replace(/^v/, "").replace(/\+.*/, "");
  const out = resolve(dist, "npm");
  const work = mkdtempSync(join(tmpdir(), "mcpe-gen-npm-"));
  try {
    mkdirSync(out, { recursive: true });
    const wrapper = JSON.parse(readFileSync(join(here, "mcpe-gen", "package.json"), "utf8"));
    const optionalDependencies = {};
    const directories = [];
    for (const target of readdirSync(join(dist, "bin")).sort()) {
      const [system, processor] = target.split("_");
      const os = systems[system];
      const cpu = processors[processor];
      const name = `@mcpe-gen/${os}-${cpu}`;
      const directory = join(work, `${os}-${cpu}`);
      const binary = system === "windows" ? "mcpe-gen.exe" : "mcpe-gen";
      mkdirSync(join(directory, "bin"), { recursive: true });
      copyFileSync(join(dist, "bin", target, binary), join(directory, "bin", binary));
      chmodSync(join(directory, "bin", binary), 0o755);
      const { homepage, repository, license, publishConfig } = wrapper;
      const description = `The binary of mcpe-gen for ${os} on ${cpu}`;
      write(join(directory, "package.json"), { name, version, description, homepage, repository, license, publishConfig, os: [os], cpu: [cpu], files: ["bin"] });
      optionalDependencies[name] = version;
      directories.push(directory);
    }
    const directory = join(work, "mcpe-gen");
    cpSync(join(here, "mcpe-gen"), directory, { recursive: true });
    chmodSync(join(directory, "bin", "mcpe-gen.js"), 0o755);
    write(join(directory, "package.json"), { ...wrapper, version, optionalDependencies });
    directories.push(directory);
    for (const each of directories) {
      copyFileSync(join(here, "..", "LICENSE"), join(each, "LICENSE"));
      execFileSync("npm", ["pack", "--silent", "--pack-destination", out], { cwd: each, stdio: ["ignore", "ignore", "inherit"], shell: process.platform === "win32" });
    }
  } finally {
    rmSync(work, { recursive: true });
  }
}

function project(packages, version) {
  const at = (name) => `file:${join(packages, file(name, version))}`;
  const overrides = {};
  for (const os of Object.values(systems)) {
    for (const cpu of Object.values(processors)) {
      const name = `@mcpe-gen/${os}-${cpu}`;
      if (readdirSync(packages).includes(file(name, version))) {
        overrides[name] = at(name);
      }
    }
  }
  return { private: true, dependencies: { "mcpe-gen": at("mcpe-gen") }, overrides };
}

const args = process.argv.slice(2);
if (args[0] === "--project") {
  console.log(JSON.stringify(project(args[1], args[2]), null, 2));
} else {
  pack(args[0]);
}
