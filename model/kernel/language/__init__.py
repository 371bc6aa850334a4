"""The modelling language: fields, expressions on columns, actions and properties."""
