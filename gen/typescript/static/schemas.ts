
/** The schemas of each event type. Any JSON Schema validator takes one: new Ajv2020().compile(schemas[name].payload). */
export const schemas: { readonly [K in EventName]: { readonly arguments: Schema; readonly payload: Schema } } = {
/* events */
};

/** What is wrong with a value. */
export interface Issue {
  readonly message: string;
  readonly path?: readonly PropertyKey[];
}

/** A Standard Schema (standardschema.dev) of values of type T. */
export interface StandardSchema<T> {
  readonly '~standard': {
    readonly version: 1;
    readonly vendor: 'mcpe-gen';
    readonly validate: (value: unknown) => { readonly value: T } | { readonly issues: readonly Issue[] };
    readonly types?: { readonly input: T; readonly output: T } | undefined;
  };
}

/**
 * One of the schemas as a Standard Schema, over a validator of your choice: compile is given the JSON Schema and
 * returns what says what is wrong with a value, nothing where it is valid.
 */
export function standard<K extends EventName, P extends 'arguments' | 'payload'>(
  name: K,
  part: P,
  compile: (schema: Schema) => (value: unknown) => readonly Issue[],
): StandardSchema<Events[K][P]> {
  const check = compile(schemas[name][part]);
  return {
    '~standard': {
      version: 1,
      vendor: 'mcpe-gen',
      validate: (value) => {
        const issues = check(value);
        return issues.length > 0 ? { issues } : { value: value as Events[K][P] };
      },
    },
  };
}
