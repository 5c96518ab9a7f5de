// Browsers refuse workers on pages that are opened from disk. There, the search's worker runs in a
// hidden frame instead: same script, same messages, no server.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.waiting = [];
      this.ready = false;
      const start = () => {
        document.body.append(this.frame);
        const inside = this.frame.contentWindow;
        inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
        const script = inside.document.createElement("script");
        script.src = address;
        script.onload = () => {
          this.ready = true;
          this.waiting.splice(0).forEach((data) => this.postMessage(data));
        };
        script.onerror = () => this.dispatchEvent(new ErrorEvent("error"));
        inside.document.body.append(script);
      };
      if (document.body) start();
      else addEventListener("DOMContentLoaded", start);
    }

    postMessage(data) {
      if (!this.ready) this.waiting.push(data);
      else this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
