// Judges values of many schemas that share definitions: the first line of standard input is {definitions, draft07}, each
// other one {ref, values}, and each line of the output the verdicts on them.
import { createInterface } from 'node:readline';
import { Ajv } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';

const options = { strict: false, logger: false, validateSchema: false, inlineRefs: false };
let ajv;
for await (const line of createInterface({ input: process.stdin })) {
  const q = JSON.parse(line);
  if (!ajv) {
    ajv = q.draft07 ? new Ajv(options) : new Ajv2020(options);
    addFormats.default(ajv);
    ajv.addSchema({ $defs: q.definitions }, 'corpus');
    continue;
  }
  const validate = ajv.compile({ $ref: 'corpus' + q.ref });
  console.log(JSON.stringify(q.values.map((value) => validate(value))));
}
