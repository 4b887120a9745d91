"""The nouns: frozen data that every other part speaks in; nothing here touches the world."""
