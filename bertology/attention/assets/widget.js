// The page in a frame of its own inside a notebook; what is looked at is the same on both sides.
function render({ model, el }) {
  const frame = document.createElement("iframe");
  frame.title = "Attention";
  frame.setAttribute("sandbox", "allow-scripts allow-downloads");
  frame.style.cssText = `width:100%;height:${model.get("height")}px;border:0;border-radius:8px`;
  frame.srcdoc = model.get("page");

  const send = () => frame.contentWindow?.postMessage({ bertologyState: model.get("state") }, "*");
  let ready = false;

  function take(event) {
    if (event.source !== frame.contentWindow || !event.data?.bertologyState) return;
    // What the notebook asked for before there was a page comes first.
    if (!ready) {
      ready = true;
      if (Object.keys(model.get("state")).length) send();
    }
    model.set("state", { ...model.get("state"), ...event.data.bertologyState });
    model.save_changes();
  }

  function load() {
    ready = false;
    frame.srcdoc = model.get("page");
  }

  window.addEventListener("message", take);
  model.on("change:state", send);
  model.on("change:page", load);
  el.append(frame);
  return () => {
    window.removeEventListener("message", take);
    model.off("change:state", send);
    model.off("change:page", load);
  };
}

export default { render };
