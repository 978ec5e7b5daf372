//! memviz
