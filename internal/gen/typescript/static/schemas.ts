
/** The schemas of each event type. Any JSON Schema validator takes one: new Ajv2020().compile(schemas[name].payload). */
export const schemas: { readonly [K in EventName]: { readonly arguments: Schema; readonly payload: Schema } } = {
/* events */
};

/** One reason why a value is invalid. */
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

/** Compiles a JSON Schema with a validator of your choice: the function that it returns gives no issue for a valid value. */
export type Compile = (schema: Schema) => (value: unknown) => readonly Issue[];

/** Returns one of the schemas as a Standard Schema. */
export function standard<K extends EventName, P extends 'arguments' | 'payload'>(name: K, part: P, compile: Compile): StandardSchema<Events[K][P]> {
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

/** The Standard Schemas of all event types. */
export type Validators = { readonly [K in EventName]: { readonly [P in 'arguments' | 'payload']: StandardSchema<Events[K][P]> } };

/** Returns the Standard Schemas of all event types. Each is compiled when it is first read. */
export function validators(compile: Compile): Validators {
  const all: Record<string, object> = {};
  for (const name of Object.keys(schemas) as EventName[]) {
    const parts = {};
    for (const part of ['arguments', 'payload'] as const) {
      let compiled: unknown;
      Object.defineProperty(parts, part, { enumerable: true, get: () => (compiled ??= standard(name, part, compile)) });
    }
    Object.defineProperty(all, name, { enumerable: true, value: parts });
  }
  return all as Validators;
}

/** The part of ajv that ajvCompile uses: new Ajv2020({ allErrors: true, strict: false }). */
export interface AjvLike {
  compile(schema: Schema): { (value: unknown): unknown; errors?: readonly { instancePath: string; message?: string }[] | null };
}

/** Compiles with ajv. */
export function ajvCompile(ajv: AjvLike): Compile {
  return (schema) => {
    const valid = ajv.compile(schema);
    return (value) => (valid(value) ? [] : (valid.errors ?? []).map(({ instancePath, message = 'invalid' }) => ({ message, path: pathOf(instancePath) })));
  };
}

/** Splits a JSON Pointer. */
function pathOf(pointer: string): string[] {
  return pointer.split('/').slice(1).map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'));
}
