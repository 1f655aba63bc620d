"""What a ledger knows of rows: pieces by content, keys of single rows, and files of earlier versions."""
