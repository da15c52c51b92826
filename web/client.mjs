// Makes the typed client's types, who may call what, and the choices of every enumeration, from the OpenAPI document that
// the API's code describes itself with. The document comes from the code beside it (control/api/document.py), so that
// neither can drift.
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import openapiTS, { astToString } from "openapi-typescript";

const root = new URL("..", import.meta.url).pathname;
const document = new URL("generated/openapi.json", import.meta.url).pathname;
execFileSync(process.env.MEDLEY_PYTHON ?? "python3", ["-m", "control.api.document", document], {
  cwd: root,
  stdio: "inherit",
});
const described = JSON.parse(readFileSync(document, "utf8"));
write("schema.d.ts", astToString(await openapiTS(described, { alphabetize: true })));

const roles = {};
for (const path of Object.values(described.paths)) {
  for (const operation of Object.values(path)) {
    if (operation["x-medley-role"]) roles[operation.operationId] = operation["x-medley-role"];
  }
}
write("roles.ts", `export const NEEDED_ROLE = ${JSON.stringify(roles, null, 2)} as const;\n`);
const enums = Object.entries(described.components.schemas).filter(([, schema]) => schema.enum);
const choices = Object.fromEntries(enums.map(([name, schema]) => [name, schema.enum]));
write("choices.ts", `export const CHOICES = ${JSON.stringify(choices, null, 2)} as const;\n`);

function write(name, text) {
  const path = new URL(`generated/${name}`, import.meta.url).pathname;
  let before = "";
  try {
    before = readFileSync(path, "utf8");
  } catch {}
  if (before !== text) writeFileSync(path, text);
}
