"""The databases that can hold the record. Only `store` imports them."""
