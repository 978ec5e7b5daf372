//! Draws a plan for looking at it and for the browser test.
//!
//! `cargo run -p memviz --example picture -- SOURCE OUT...` where SOURCE is a CSV (`id,lower,upper,size[,offset[,values]]`,
//! plain or gzip; without offsets the buffers are placed first fit), `synthetic:N`, or one of the named plans below,
//! and each OUT ends in `.html`, `.svg` or `.png`. `--theme light|dark`, `--size WxH`, `--scale N`, `--capacity N`.

mod plans;

use std::{error::Error, fs::File, io::BufWriter, time::Instant};

use lifetime::Bytes;
use memviz::{PictureOptions, Theme};

fn main() -> Result<(), Box<dyn Error>> {
    let mut options = PictureOptions::default();
    let mut capacity = None;
    let (mut source, mut outputs) = (None, Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--theme" => options.theme = Theme::from_name(&value()?).ok_or("no such theme")?,
            "--size" => {
                let size = value()?;
                let (width, height) = size.split_once('x').ok_or("--size takes WxH")?;
                (options.width, options.height) = (width.parse()?, height.parse()?);
            }
            "--scale" => options.scale = value()?.parse()?,
            "--capacity" => capacity = Some(Bytes(value()?.parse()?)),
            _ if source.is_none() => source = Some(argument),
            _ => outputs.push(argument),
        }
    }
    let source = source.ok_or("usage: picture SOURCE OUT...")?;
    let mut plan = plans::from_source(&source)?;
    if capacity.is_some() {
        plan.capacity = capacity;
    }
    for path in outputs {
        let begun = Instant::now();
        let mut out = BufWriter::new(File::create(&path)?);
        match path.rsplit('.').next() {
            Some("html") => memviz::write_html(&plan, &options, &mut out)?,
            Some("svg") => memviz::write_svg(&plan, &options, &mut out)?,
            Some("png") => memviz::write_png(&plan, &options, &mut out)?,
            _ => return Err(format!("{path}: not .html, .svg or .png").into()),
        }
        out.into_inner()?;
        let size = std::fs::metadata(&path)?.len();
        println!("{path}: {} buffers, {size} bytes, {:.3} s", plan.buffers.len(), begun.elapsed().as_secs_f64());
    }
    Ok(())
}
