"""Reads mail as a source: a Maildir, an mbox file or an IMAP account. Each message is a
document."""

DEFAULT_MAX_MESSAGE_BYTES = 25 * 1024 * 1024
