"""Mail as a source: a Maildir, an mbox file or an IMAP account; one message is one document."""
