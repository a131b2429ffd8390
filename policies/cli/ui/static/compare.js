// Shows answers side by side: each is computed unless it is known, and its page then has the parts. Ids stay unique.
for (const side of document.querySelectorAll(".side")) {
  const query = side.dataset.query;
  const status = side.querySelector("[role=status]");
  const show = async () => {
    const answer = await fetch(`/api/whatif?${query}`);
    if (!answer.ok) return (status.textContent = (await answer.json()).error);
    const text = await (await fetch(`/whatif?${query}`)).text();
    const page = new DOMParser().parseFromString(text, "text/html");
    const parts = [...page.querySelectorAll("main > header, main > section")].filter((part) => !part.querySelector("#nodes"));
    for (const part of parts) {
      for (const each of [part, ...part.querySelectorAll("[id], h1")]) {
        each.removeAttribute("id");
        each.removeAttribute("aria-labelledby");
      }
      const title = part.querySelector("h1");
      if (title) title.outerHTML = title.outerHTML.replace(/^<h1/, "<h2").replace(/h1>$/, "h2>");
    }
    return status.replaceWith(...parts);
  };
  show().catch(() => (status.textContent = "forewarn does not answer. Fix: reload this page; if forewarn ui ended, start it again"));
}
