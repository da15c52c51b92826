// Makes the typed client's types, and who may call what, from the OpenAPI document that the API's code describes itself
// with. The document comes from the code beside it (control/api/document.py), so that neither can drift.
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

function write(name, text) {
  const path = new URL(`generated/${name}`, import.meta.url).pathname;
  let before = "";
  try {
    before = readFileSync(path, "utf8");
  } catch {}
  if (before !== text) writeFileSync(path, text);
}
