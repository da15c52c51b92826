import { NEEDED_ROLE } from "@/../generated/roles";
import { useSession } from "@/api/session";
import { Badge } from "@/components/Badge";
import { Card } from "@/components/Card";
import { TableBox } from "@/components/TableBox";

const ABOUT: readonly { role: string; text: string }[] = [
  { role: "client", text: "Calls models at the gateway, and sees nothing here." },
  { role: "viewer", text: "Sees everything but tokens and webhooks, touches nothing." },
  { role: "operator", text: "Also makes, approves and applies plans, drains instances, overrides demand." },
  { role: "admin", text: "Also makes and revokes tokens, and sets projects and budgets." },
];

/** What each role adds to those above it: as the API itself describes its operations. */
export function Roles() {
  const { role: own } = useSession();
  return (
    <Card title="Roles" flush>
      <TableBox label="Roles">
        <table>
          <thead>
            <tr>
              <th scope="col">Role</th>
              <th scope="col">May</th>
              <th scope="col">Operations that take it</th>
            </tr>
          </thead>
          <tbody>
            {ABOUT.map(({ role, text }) => (
              <tr key={role}>
                <td className="nowrap">
                  <strong>{role}</strong> {role === own && <Badge tone="accent">you</Badge>}
                </td>
                <td>{text}</td>
                <td className="muted operations">{operationsOf(role).join(", ") || "none of the admin API"}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </TableBox>
    </Card>
  );
}

function operationsOf(role: string): string[] {
  return Object.entries(NEEDED_ROLE)
    .filter(([, needed]) => needed === role)
    .map(([name]) => name.replaceAll("_", " "))
    .sort();
}
