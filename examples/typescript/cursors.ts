// Keeps the cursors of follow in a JSON file.
import { readFileSync, renameSync, writeFileSync } from 'node:fs';

/** Keeps cursors in a file that only one process may use. A crash leaves the old or the new file, never a partial one. */
export function fileCursors(path: string): { get: (key: string) => string | undefined; set: (key: string, cursor: string) => void } {
  let kept = new Map<string, string>();
  try {
    kept = new Map(Object.entries(JSON.parse(readFileSync(path, 'utf8')) as Record<string, string>));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw new Error(`${path} does not hold cursors`, { cause: error });
  }
  return {
    get: (key) => kept.get(key),
    set: (key, cursor) => {
      if (kept.get(key) === cursor) return;
      kept.set(key, cursor);
      writeFileSync(`${path}.new`, JSON.stringify(Object.fromEntries(kept)), { flush: true });
      renameSync(`${path}.new`, path);
    },
  };
}
