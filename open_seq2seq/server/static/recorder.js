// The audio thread of recording: 16-bit samples of one channel, a tenth of a second at a time.
class Recorder extends AudioWorkletProcessor {
  constructor() {
    super();
    this.piece = new Int16Array(Math.round(sampleRate / 10));
    this.filled = 0;
    this.port.onmessage = () => this.send();
  }

  send() {
    this.port.postMessage(this.piece.slice(0, this.filled));
    this.filled = 0;
  }

  process([channels]) {
    for (let place = 0; place < (channels[0]?.length ?? 0); place++) {
      const mean = channels.reduce((sum, channel) => sum + channel[place], 0) / channels.length;
      this.piece[this.filled++] = Math.max(-1, Math.min(1, mean)) * 32767;
      if (this.filled === this.piece.length) this.send();
    }
    return true;
  }
}

registerProcessor("recorder", Recorder);
