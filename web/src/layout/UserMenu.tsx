import { LogOut, Monitor, Moon, Sun, User } from "lucide-react";
import { DropdownMenu as Menu } from "radix-ui";
import { useState } from "react";
import { useSession, useSignOut } from "@/api/session";
import { Button } from "@/components/Button";
import { Time } from "@/components/figures";
import { chooseTheme, type ThemeChoice, themeChoice } from "@/theme";

const THEMES = [
  { choice: "system", name: "System theme", icon: Monitor },
  { choice: "light", name: "Light", icon: Sun },
  { choice: "dark", name: "Dark", icon: Moon },
] as const;

export function UserMenu() {
  const session = useSession();
  const signOut = useSignOut();
  const [choice, setChoice] = useState<ThemeChoice>(themeChoice);
  return (
    <Menu.Root modal={false}>
      <Menu.Trigger asChild>
        <Button icon aria-label="You and the theme">
          <User size={15} aria-hidden />
        </Button>
      </Menu.Trigger>
      <Menu.Portal>
        <Menu.Content className="menu" align="end" sideOffset={6} collisionPadding={8}>
          <Menu.Label className="menu-label">
            <strong>{session.name}</strong>
            <div>
              {session.role}
              {session.expires_at && (
                <>
                  , until <Time at={session.expires_at} />
                </>
              )}
            </div>
          </Menu.Label>
          <div className="menu-line" role="separator" />
          <Menu.RadioGroup
            value={choice}
            onValueChange={(next) => {
              chooseTheme(next as ThemeChoice);
              setChoice(next as ThemeChoice);
            }}
          >
            {THEMES.map((theme) => (
              <Menu.RadioItem key={theme.choice} value={theme.choice} className="menu-item">
                <theme.icon size={14} aria-hidden />
                <span className="grow">{theme.name}</span>
                {choice === theme.choice && <i className="dot" aria-hidden />}
              </Menu.RadioItem>
            ))}
          </Menu.RadioGroup>
          <div className="menu-line" role="separator" />
          <Menu.Item className="menu-item" onSelect={() => void signOut()}>
            <LogOut size={14} aria-hidden />
            Sign out
          </Menu.Item>
        </Menu.Content>
      </Menu.Portal>
    </Menu.Root>
  );
}
