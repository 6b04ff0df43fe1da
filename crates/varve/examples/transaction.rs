//! A transaction of a drive that lives on a file, and one that never happened.
//!
//! `cargo run --release -p varve --example transaction`

use varve::block::{BlockDevice, Bytes, Data, Lba, Lpn, Request, Sectors, Time, Transactional};
use varve::image::ImageDrive;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::temp_dir().join(format!("varve-transaction-{}.img", std::process::id()));
    let mut drive = ImageDrive::create(&path, Bytes(64 << 20))?;
    let transfer = drive.tx_begin()?;
    for (page, balance) in [(0, 70), (1, 130)] {
        drive.tx_write(Time::ZERO, transfer, Lpn(page), Data::Write(&[balance; 4096]))?;
    }
    drive.tx_commit(Time::ZERO, &[transfer])?;

    let never = drive.tx_begin()?;
    drive.tx_write(Time::ZERO, never, Lpn(0), Data::Write(&[0; 4096]))?;
    // The program dies here: nothing is committed, nothing closed.
    drop(drive);

    let mut drive = ImageDrive::open(&path)?;
    for page in 0..2 {
        let mut bytes = [0; 4096];
        let read = Request::read(Lba(8 * page), Sectors(8)).with(Data::Read(&mut bytes));
        drive.submit(Time::ZERO, read)?;
        println!("account {page}: {}", bytes[0]);
    }
    drop(drive);
    std::fs::remove_file(&path)?;
    Ok(())
}
