// Judges values: each line of standard input is {schema, values}, each line of the output the verdicts on them.
import { createInterface } from 'node:readline';
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';

const ajv = new Ajv2020({ strict: false, logger: false, validateSchema: false });
addFormats.default(ajv);
for await (const line of createInterface({ input: process.stdin })) {
  const { schema, values } = JSON.parse(line);
  const validate = ajv.compile(schema);
  console.log(JSON.stringify(values.map((value) => validate(value))));
}
