/** The login page, and who is logged in, at the top of every page. */

import { logIn, logOut } from "./api.js";
import { element, say } from "./dom.js";

/** The page that asks for a login. After one, the page loads itself again, with what the user may see. */
export function loginPage({ takes_token: takesToken, takes_oauth2: takesOAuth2 }, refused = "") {
  const said = element("p", { role: "alert" });
  if (refused) say(said, `Not logged in: ${refused}.`);
  const secret = (name) => element("input", { type: "password", name, required: true, autocomplete: name === "token" ? "off" : "current-password" });
  const user = element("input", { name: "user", required: true, autofocus: true, autocomplete: "username" });
  const [password, token] = [secret("password"), secret("token")];
  const passwordIs = takesOAuth2 ? "Password, or a token (JWT) of OAuth 2" : "Password";
  const tokens = [takesOAuth2 && "a token (JWT) of OAuth 2", takesToken && "the token that admin.token_file names"];
  const tokenIs = tokens.filter(Boolean).join(", or ");
  return element(
    "div", { class: "login card" }, element("h1", {}, "Log in"), said,
    form(said, () => ({ user: user.value, password: password.value }), [["Name", user], [passwordIs, password]], "Log in"),
    tokenIs && form(said, () => ({ token: token.value.trim() }), [[`Or ${tokenIs}`, token]], "Log in with the token"),
  );
}

function form(said, given, fields, word) {
  const button = element("button", { class: "primary" }, word);
  const submit = async (event) => {
    event.preventDefault();
    button.disabled = true;
    try {
      await logIn(given());
      location.reload();
    } catch (error) {
      say(said, `Not logged in: ${error.message}.`);
      button.disabled = false;
    }
  };
  return element("form", { on: { submit } }, fields.map(([label, control]) => element("label", {}, label, control)), button);
}

/** Show who is logged in, with a button that ends the login. Where no login is needed there is nothing to show. */
export function showWho({ user, tags, way }) {
  if (way !== "console") return;
  const button = document.getElementById("log-out");
  const leave = () => logOut().finally(() => location.reload());
  document.getElementById("who").replaceChildren(element("b", {}, user), element("span", {}, tags.join(", ")));
  button.addEventListener("click", leave);
  button.hidden = false;
}
