// Behaviour of schemas.ts with two validators. node --test runs it beside the TypeScript of examples/schemas/incidents.yaml.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Ajv2020 } from 'ajv/dist/2020.js';
import * as z from 'zod';
import { ajvCompile, schemas, standard, validators, type Compile } from './incidents/schemas.js';

const byZod: Compile = (schema) => {
  const type = z.fromJSONSchema(schema as Parameters<typeof z.fromJSONSchema>[0]);
  return (value) => type.safeParse(value).error?.issues ?? [];
};

const created = { incidentId: 'i1', severity: 'P1', openedAt: '2026-01-01T00:00:00Z' };

for (const [name, compile] of Object.entries({ ajv: ajvCompile(new Ajv2020({ allErrors: true, strict: false, validateFormats: false })), zod: byZod })) {
  test(`${name} validates payloads and arguments as a Standard Schema`, () => {
    const valid = validators(compile)['incident.created'];
    const ok = valid.payload['~standard'].validate(created);
    assert.deepEqual(ok, { value: created });
    const wrong = valid.payload['~standard'].validate({ ...created, reporter: { id: 7 } });
    assert.ok('issues' in wrong);
    assert.deepEqual(wrong.issues.map((i) => i.path), [['reporter', 'id']]);
    assert.ok('issues' in valid.arguments['~standard'].validate({ severity: 'hgih' }));
    assert.deepEqual(valid.payload['~standard'].version, 1);
  });
}

test('a schema is compiled once, when it is first read', () => {
  let compiled = 0;
  const valid = validators(() => (compiled++, () => []));
  assert.equal(compiled, 0);
  assert.equal(valid['incident.created'].payload, valid['incident.created'].payload);
  assert.equal(compiled, 1);
  assert.deepEqual(Object.keys(valid), Object.keys(schemas));
});

test('a path names members with slashes', () => {
  const ajv = { compile: () => Object.assign(() => false, { errors: [{ instancePath: '/a~1b/0/c~0d' }] }) };
  assert.deepEqual(standard('incident.created', 'payload', ajvCompile(ajv))['~standard'].validate({}), {
    issues: [{ message: 'invalid', path: ['a/b', '0', 'c~d'] }],
  });
});
