import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { type Token, tokens } from "@/api/access";
import { api, got } from "@/api/client";
import { useRefusal } from "@/api/session";
import { Badge } from "@/components/Badge";
import { ActButton } from "@/components/Button";
import { Card } from "@/components/Card";
import { ConfirmDialog } from "@/components/ConfirmDialog";
import { Empty, Loaded } from "@/components/feedback";
import { Count, Time, useNow } from "@/components/figures";
import { TableBox } from "@/components/TableBox";
import { Page } from "@/layout/Page";
import { NewTokenDialog } from "./NewTokenDialog";
import { Projects } from "./Projects";
import { Roles } from "./Roles";
import { RotateDialog } from "./RotateDialog";

/** Who may speak to the control plane and to the gateways, and what each role may do. */
export default function Tokens() {
  const refusal = useRefusal("list_tokens");
  const [makes, setMakes] = useState(false);
  return (
    <Page title="Tokens and roles">
      <Card
        title="Tokens"
        flush
        side={
          <ActButton operation="create_token" tone="primary" small onClick={() => setMakes(true)}>
            New token
          </ActButton>
        }
      >
        {refusal ? <Empty compact title="Tokens are for admins to see">{refusal}</Empty> : <TokenTable />}
      </Card>
      <Projects />
      <Roles />
      {makes && <NewTokenDialog onClose={() => setMakes(false)} />}
    </Page>
  );
}

function TokenTable() {
  const read = useQuery(tokens());
  const client = useQueryClient();
  const [revoked, setRevoked] = useState<Token | null>(null);
  const [rotated, setRotated] = useState<Token | null>(null);
  return (
    <>
      <Loaded query={read} height={240}>
        {(items) => (
          <TableBox label="Tokens">
            <table>
              <thead>
                <tr>
                  <th scope="col">Name</th>
                  <th scope="col">Role</th>
                  <th scope="col">Project</th>
                  <th scope="col">Priority</th>
                  <th scope="col" className="right">Requests/min</th>
                  <th scope="col" className="right">Tokens/min</th>
                  <th scope="col">Made</th>
                  <th scope="col">State</th>
                  <th scope="col"><span className="sr">Actions</span></th>
                </tr>
              </thead>
              <tbody>
                {items.map((token) => (
                  <tr key={token.id}>
                    <td className="name">
                      <div className="strong clip" title={token.name}>{token.name}</div>
                      <div className="muted mono">{token.id}</div>
                    </td>
                    <td><Badge tone={token.role === "admin" ? "accent" : "plain"}>{token.role}</Badge></td>
                    <td className="break">{token.project}</td>
                    <td>{token.priority}</td>
                    <td className="right"><Count value={token.requests_per_minute} none="no limit" /></td>
                    <td className="right"><Count value={token.tokens_per_minute} none="no limit" /></td>
                    <td><Time at={token.created_at} ago /></td>
                    <td><Standing token={token} /></td>
                    <td className="right">
                      {!token.revoked_at && (
                        <span className="row acts">
                          <ActButton operation="rotate_token" small aria-label={`Rotate ${token.name}`} onClick={() => setRotated(token)}>
                            Rotate…
                          </ActButton>
                          <ActButton operation="revoke_token" small tone="danger" aria-label={`Revoke ${token.name}`} onClick={() => setRevoked(token)}>
                            Revoke
                          </ActButton>
                        </span>
                      )}
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </TableBox>
        )}
      </Loaded>
      {rotated && <RotateDialog token={rotated} onClose={() => setRotated(null)} />}
      <ConfirmDialog
        open={revoked !== null}
        onClose={() => setRevoked(null)}
        title={`Revoke ${revoked?.name ?? ""}?`}
        text="From now on it is worth nothing, and neither is a browser session that began with it. This cannot be undone."
        act="Revoke"
        danger
        onConfirm={async () => {
          if (revoked) await got(api.DELETE("/api/v1/tokens/{token_id}", { params: { path: { token_id: revoked.id } } }));
          await client.invalidateQueries({ queryKey: ["tokens"] });
        }}
      />
    </>
  );
}

function Standing({ token }: { token: Token }) {
  const now = useNow();
  if (token.revoked_at) return <Badge tone="bad" dot>revoked <Time at={token.revoked_at} ago /></Badge>;
  if (!token.expires_at) return <Badge tone="good" dot>never expires</Badge>;
  const over = Date.parse(token.expires_at) <= now;
  return <Badge tone={over ? "bad" : "good"} dot>{over ? "expired" : "expires"} <Time at={token.expires_at} ago /></Badge>;
}
