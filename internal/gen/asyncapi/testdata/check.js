// Reads AsyncAPI documents with the official parser, whose modules lie in the directory that the
// first argument names. Prints one line a finding; exits with 1 when a document is refused.
const fs = require('fs');
const [modules, ...files] = process.argv.slice(2);
const { Parser } = require(require.resolve('@asyncapi/parser', { paths: [modules] }));

(async () => {
  let refused = false;
  for (const file of files) {
    const { document, diagnostics } = await new Parser().parse(fs.readFileSync(file, 'utf8'));
    for (const d of diagnostics) {
      if (d.severity === 0 || d.severity === 1) {
        console.log(`${file}: ${d.severity === 0 ? 'error' : 'warning'} ${d.code} at ${d.path.join('/')}: ${d.message}`);
        refused = true;
      }
    }
    if (!document) {
      console.log(`${file}: refused`);
      refused = true;
      continue;
    }
    console.log(`${file}: ${document.channels().length} channels, ${document.messages().length} messages`);
  }
  process.exit(refused ? 1 : 0);
})();
